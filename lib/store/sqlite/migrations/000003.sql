-- Tables of which a row may be large have a rowid. In a table without one the whole row is the key: to compare with it, SQLite reads
-- all of it, so that one message of 10 MB cost 10 MB at every search that came past it, in whatever thread.

CREATE TABLE threads_meta_3 (
  thread_id     TEXT NOT NULL PRIMARY KEY CHECK (length(thread_id) <= 64),
  assistant_id  TEXT CHECK (length(assistant_id) <= 128),
  user_id       TEXT CHECK (length(user_id) <= 64),
  display_name  TEXT CHECK (length(display_name) <= 256),
  status        TEXT NOT NULL DEFAULT 'idle',
  metadata_json TEXT NOT NULL DEFAULT '{}',
  created_at    TEXT NOT NULL,
  updated_at    TEXT NOT NULL,
  -- seq of the next event. A counter, because max + 1 would give a number again after a delete.
  next_seq      INTEGER NOT NULL DEFAULT 1,
  next_ordinal  INTEGER NOT NULL DEFAULT 1
);
INSERT INTO threads_meta_3
  SELECT thread_id, assistant_id, user_id, display_name, status, metadata_json, created_at, updated_at, next_seq, next_ordinal
  FROM threads_meta;
DROP TABLE threads_meta;
ALTER TABLE threads_meta_3 RENAME TO threads_meta;
CREATE INDEX ix_threads_user_updated ON threads_meta (user_id, updated_at, thread_id);
CREATE INDEX ix_threads_assistant ON threads_meta (assistant_id);

CREATE TABLE checkpoints_3 (
  thread_id            TEXT NOT NULL,
  -- Sorts by time as a text.
  checkpoint_id        TEXT NOT NULL,
  parent_checkpoint_id TEXT,
  run_id               TEXT,
  metadata_json        TEXT NOT NULL,
  next_json            TEXT NOT NULL DEFAULT '[]',
  -- Body numbers: [[from, to], ...] in the order of the conversation.
  messages_json        TEXT NOT NULL,
  -- {channel: body number}
  channels_json        TEXT NOT NULL,
  created_at           TEXT NOT NULL,
  PRIMARY KEY (thread_id, checkpoint_id)
);
INSERT INTO checkpoints_3
  SELECT thread_id, checkpoint_id, parent_checkpoint_id, run_id, metadata_json, next_json, messages_json, channels_json, created_at
  FROM checkpoints;
DROP TABLE checkpoints;
ALTER TABLE checkpoints_3 RENAME TO checkpoints;

-- One version of one message or one channel, as JSON text.
CREATE TABLE checkpoint_bodies_3 (
  thread_id TEXT NOT NULL,
  no        INTEGER NOT NULL,
  json      TEXT NOT NULL,
  PRIMARY KEY (thread_id, no)
);
INSERT INTO checkpoint_bodies_3 SELECT thread_id, no, json FROM checkpoint_bodies;
DROP TABLE checkpoint_bodies;
ALTER TABLE checkpoint_bodies_3 RENAME TO checkpoint_bodies;
