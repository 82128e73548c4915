-- What clients of other protocols call threads and runs.
CREATE TABLE aliases (
  -- Empty: of nobody.
  user_id   TEXT NOT NULL,
  protocol  TEXT NOT NULL,
  text      TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  run_id    TEXT,
  created   TEXT NOT NULL,
  PRIMARY KEY (user_id, protocol, text)
);
CREATE INDEX ix_aliases_thread ON aliases (thread_id);
CREATE INDEX ix_aliases_run ON aliases (run_id) WHERE run_id IS NOT NULL;
