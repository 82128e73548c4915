-- Assistants: graphs with a configuration of a user's, the version in force here and all of them beside it.
CREATE TABLE assistants (
  assistant_id  text COLLATE "C" PRIMARY KEY,
  -- NULL: everybody's.
  user_id       varchar(64) COLLATE "C",
  version       integer NOT NULL,
  -- A counter: a number is not given again when an older version is in force.
  last_version  integer NOT NULL DEFAULT 1,
  graph_id      text NOT NULL,
  name          text NOT NULL,
  description   text,
  config_json   text NOT NULL,
  context_json  text NOT NULL,
  metadata_json text NOT NULL,
  created_at    timestamptz NOT NULL,
  updated_at    timestamptz NOT NULL
);
CREATE INDEX ix_assistants_user ON assistants (user_id, created_at);

CREATE TABLE assistant_versions (
  assistant_id  text COLLATE "C" NOT NULL,
  version       integer NOT NULL,
  graph_id      text NOT NULL,
  name          text NOT NULL,
  description   text,
  config_json   text NOT NULL,
  context_json  text NOT NULL,
  metadata_json text NOT NULL,
  created_at    timestamptz NOT NULL,
  PRIMARY KEY (assistant_id, version)
);
