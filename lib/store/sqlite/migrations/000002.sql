-- Credentials besides passwords. Of both kinds only the digest is kept: who reads the file can use neither.

-- Sessions that were logged out before they ended by themselves, until they do.
CREATE TABLE denied_sessions (
  digest  TEXT PRIMARY KEY CHECK (length(digest) = 64),
  -- Unix time in seconds.
  expires INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX ix_denied_sessions_expires ON denied_sessions (expires);

CREATE TABLE api_tokens (
  token_id     TEXT PRIMARY KEY CHECK (length(token_id) <= 36),
  user_id      TEXT NOT NULL CHECK (length(user_id) <= 64),
  name         TEXT NOT NULL CHECK (length(name) <= 100),
  digest       TEXT NOT NULL UNIQUE CHECK (length(digest) = 64),
  scopes_json  TEXT NOT NULL DEFAULT '[]',
  created_at   TEXT NOT NULL,
  -- NULL: it ends when it is revoked.
  expires_at   TEXT,
  last_used_at TEXT
);
CREATE INDEX ix_api_tokens_user ON api_tokens (user_id, created_at);
