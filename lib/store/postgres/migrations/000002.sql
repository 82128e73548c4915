-- breaking: an older program takes the greatest id for the newest checkpoint.
-- Checkpoints are ordered by a number that the store gives: their ids come from the clocks of processes, which are set back and
-- apart, and what is newest in a thread must not hang on one [Store 11]. Given under the lock of the thread.
ALTER TABLE checkpoints ADD COLUMN key bigint;
UPDATE checkpoints SET key = numbered.key
  FROM (SELECT thread_id, checkpoint_id, row_number() OVER (ORDER BY thread_id, checkpoint_id) AS key FROM checkpoints) AS numbered
  WHERE checkpoints.thread_id = numbered.thread_id AND checkpoints.checkpoint_id = numbered.checkpoint_id;
ALTER TABLE checkpoints ALTER COLUMN key SET NOT NULL;
ALTER TABLE checkpoints ALTER COLUMN key ADD GENERATED ALWAYS AS IDENTITY;
SELECT setval(pg_get_serial_sequence('checkpoints', 'key'), (SELECT coalesce(max(key), 0) + 1 FROM checkpoints), false)::text;
CREATE UNIQUE INDEX uq_checkpoints_thread_key ON checkpoints (thread_id, key);
