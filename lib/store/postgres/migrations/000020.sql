-- What clients of other protocols call threads and runs.
CREATE TABLE aliases (
  -- Empty: of nobody.
  user_id   varchar(64) COLLATE "C" NOT NULL,
  protocol  varchar(64) COLLATE "C" NOT NULL,
  text      varchar(512) COLLATE "C" NOT NULL,
  thread_id varchar(64) COLLATE "C" NOT NULL,
  run_id    varchar(64) COLLATE "C",
  created   timestamptz NOT NULL,
  PRIMARY KEY (user_id, protocol, text)
);
CREATE INDEX ix_aliases_thread ON aliases (thread_id);
CREATE INDEX ix_aliases_run ON aliases (run_id) WHERE run_id IS NOT NULL;
