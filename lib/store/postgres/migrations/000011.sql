-- Crons: runs that are to be started again and again.
CREATE TABLE crons (
  cron_id          varchar(64) COLLATE "C" PRIMARY KEY,
  user_id          varchar(64) COLLATE "C" NOT NULL,
  assistant_id     text,
  -- NULL: every run has a thread of its own.
  thread_id        varchar(64) COLLATE "C",
  schedule         text NOT NULL,
  timezone         text,
  payload_json     text NOT NULL,
  metadata_json    text NOT NULL,
  on_run_completed text NOT NULL,
  enabled          integer NOT NULL,
  end_time         timestamptz,
  -- NULL: it never comes again.
  next_run_date    timestamptz,
  -- Until when a process is at it.
  claimed_until    timestamptz,
  created_at       timestamptz NOT NULL,
  updated_at       timestamptz NOT NULL
);
CREATE INDEX ix_crons_user ON crons (user_id, created_at);
CREATE INDEX ix_crons_thread ON crons (thread_id) WHERE thread_id IS NOT NULL;
CREATE INDEX ix_crons_due ON crons (next_run_date) WHERE enabled = 1;

-- Who is to be told of the end of a run, until they have been.
CREATE TABLE webhooks (
  run_id   varchar(64) COLLATE "C" PRIMARY KEY,
  url      text NOT NULL,
  attempts integer NOT NULL,
  -- NULL: it is made of the run.
  payload  text,
  next_at  timestamptz NOT NULL
);
CREATE INDEX ix_webhooks_due ON webhooks (next_at);
