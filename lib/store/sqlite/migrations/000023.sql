-- Groups that somebody's provider has named, as a JSON list; NULL: none.
ALTER TABLE users ADD COLUMN groups_json TEXT;

-- Sessions that were opened at a provider, as long as they stand: whom to ask about them, and whom to tell of their end.
CREATE TABLE provider_sessions (
  digest   TEXT PRIMARY KEY CHECK (length(digest) = 64),
  user_id  TEXT NOT NULL,
  provider TEXT NOT NULL,
  subject  TEXT NOT NULL,
  sid      TEXT,
  -- Encrypted.
  tokens   TEXT NOT NULL,
  -- Unix times in seconds. NULL: the provider cannot be asked.
  checked  INTEGER,
  expires  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX ix_provider_sessions_user ON provider_sessions (user_id);
CREATE INDEX ix_provider_sessions_subject ON provider_sessions (provider, subject);
CREATE INDEX ix_provider_sessions_sid ON provider_sessions (provider, sid) WHERE sid IS NOT NULL;
CREATE INDEX ix_provider_sessions_checked ON provider_sessions (checked) WHERE checked IS NOT NULL;
CREATE INDEX ix_provider_sessions_expires ON provider_sessions (expires);
