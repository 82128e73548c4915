-- Assistants: graphs with a configuration of a user's, the version in force here and all of them beside it.
CREATE TABLE assistants (
  assistant_id  TEXT PRIMARY KEY,
  -- NULL: everybody's.
  user_id       TEXT CHECK (length(user_id) <= 64),
  version       INTEGER NOT NULL,
  -- A counter: a number is not given again when an older version is in force.
  last_version  INTEGER NOT NULL DEFAULT 1,
  graph_id      TEXT NOT NULL,
  name          TEXT NOT NULL,
  description   TEXT,
  config_json   TEXT NOT NULL,
  context_json  TEXT NOT NULL,
  metadata_json TEXT NOT NULL,
  created_at    TEXT NOT NULL,
  updated_at    TEXT NOT NULL
);
CREATE INDEX ix_assistants_user ON assistants (user_id, created_at);

CREATE TABLE assistant_versions (
  assistant_id  TEXT NOT NULL,
  version       INTEGER NOT NULL,
  graph_id      TEXT NOT NULL,
  name          TEXT NOT NULL,
  description   TEXT,
  config_json   TEXT NOT NULL,
  context_json  TEXT NOT NULL,
  metadata_json TEXT NOT NULL,
  created_at    TEXT NOT NULL,
  PRIMARY KEY (assistant_id, version)
);
