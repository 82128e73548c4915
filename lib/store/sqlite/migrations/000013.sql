-- Crons: runs that are to be started again and again.
CREATE TABLE crons (
  cron_id          TEXT PRIMARY KEY,
  user_id          TEXT NOT NULL CHECK (length(user_id) <= 64),
  assistant_id     TEXT,
  -- NULL: every run has a thread of its own.
  thread_id        TEXT CHECK (length(thread_id) <= 64),
  schedule         TEXT NOT NULL,
  timezone         TEXT,
  payload_json     TEXT NOT NULL,
  metadata_json    TEXT NOT NULL,
  on_run_completed TEXT NOT NULL,
  enabled          INTEGER NOT NULL,
  end_time         TEXT,
  -- NULL: it never comes again.
  next_run_date    TEXT,
  -- Until when a process is at it.
  claimed_until    TEXT,
  created_at       TEXT NOT NULL,
  updated_at       TEXT NOT NULL
);
CREATE INDEX ix_crons_user ON crons (user_id, created_at);
CREATE INDEX ix_crons_thread ON crons (thread_id) WHERE thread_id IS NOT NULL;
CREATE INDEX ix_crons_due ON crons (next_run_date) WHERE enabled = 1;

-- Who is to be told of the end of a run, until they have been.
CREATE TABLE webhooks (
  run_id   TEXT PRIMARY KEY,
  url      TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  -- NULL: it is made of the run.
  payload  TEXT,
  next_at  TEXT NOT NULL
);
CREATE INDEX ix_webhooks_due ON webhooks (next_at);
