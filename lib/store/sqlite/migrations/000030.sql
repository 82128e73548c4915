-- breaking: an older program would delete what is held.
-- Legal holds: nothing of a thread or user is deleted while there is one.
CREATE TABLE holds (
  hold_id    TEXT PRIMARY KEY,
  kind       TEXT NOT NULL,
  target     TEXT NOT NULL,
  reason     TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX ix_holds_target ON holds (kind, target);
