-- breaking: an older program would let somebody sign in whose account is disabled.
-- NULL: the account is not disabled.
ALTER TABLE users ADD COLUMN disabled_at TEXT;
CREATE INDEX ix_users_created ON users (created_at, id);

-- Sign-ins that have not ended, for their lists. A session is good without its row: what decides is the signed token, and denied_sessions.
CREATE TABLE sessions (
  digest       TEXT PRIMARY KEY CHECK (length(digest) = 64),
  user_id      TEXT NOT NULL,
  created_at   TEXT NOT NULL,
  last_used_at TEXT NOT NULL,
  -- Unix time in seconds.
  expires      INTEGER NOT NULL,
  device       TEXT,
  address      TEXT
) WITHOUT ROWID;
CREATE INDEX ix_sessions_user ON sessions (user_id, created_at);
CREATE INDEX ix_sessions_expires ON sessions (expires);

CREATE TABLE audit (
  audit_id     INTEGER PRIMARY KEY AUTOINCREMENT,
  at           TEXT NOT NULL,
  action       TEXT NOT NULL,
  -- user:<id>, operator, system or nobody.
  actor        TEXT NOT NULL,
  -- user:<id>, token:<id> and the like.
  target       TEXT,
  address      TEXT,
  request_id   TEXT,
  details_json TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX ix_audit_at ON audit (at);
CREATE INDEX ix_audit_actor ON audit (actor, audit_id);
CREATE INDEX ix_audit_target ON audit (target, audit_id) WHERE target IS NOT NULL;
CREATE INDEX ix_audit_action ON audit (action, audit_id);
