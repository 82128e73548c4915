-- Threads that their makers have given a time to live.
CREATE TABLE thread_ttls (
  thread_id  text COLLATE "C" PRIMARY KEY,
  -- When the thread was made: one that was made anew under its id has none of it.
  made_at    timestamptz NOT NULL,
  minutes    double precision NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE INDEX ix_thread_ttls_expires ON thread_ttls (expires_at);
