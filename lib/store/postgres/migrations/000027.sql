-- breaking: an older program would delete what is held.
-- Legal holds: nothing of a thread or user is deleted while there is one.
CREATE TABLE holds (
  hold_id    text COLLATE "C" PRIMARY KEY,
  kind       text COLLATE "C" NOT NULL,
  target     text COLLATE "C" NOT NULL,
  reason     text NOT NULL,
  created_by text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL
);
CREATE INDEX ix_holds_target ON holds (kind, target);
