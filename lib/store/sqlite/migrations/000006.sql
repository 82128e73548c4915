-- breaking: an older program takes the greatest id for the newest checkpoint.
-- Checkpoints are ordered by a number that the store gives: their ids come from the clocks of processes, which are set back and
-- apart, and what is newest in a thread must not hang on one [Store 11].

CREATE TABLE checkpoints_6 (
  key                  INTEGER PRIMARY KEY,
  thread_id            TEXT NOT NULL,
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
  UNIQUE (thread_id, checkpoint_id)
);
INSERT INTO checkpoints_6
    (thread_id, checkpoint_id, parent_checkpoint_id, run_id, metadata_json, next_json, messages_json, channels_json, created_at)
  SELECT thread_id, checkpoint_id, parent_checkpoint_id, run_id, metadata_json, next_json, messages_json, channels_json, created_at
  FROM checkpoints ORDER BY thread_id, checkpoint_id;
DROP TABLE checkpoints;
ALTER TABLE checkpoints_6 RENAME TO checkpoints;
-- The key is the end of every entry.
CREATE INDEX ix_checkpoints_thread ON checkpoints (thread_id);
