-- breaking: an older program shows what removed threads have left, and makes threads on top of it.
-- Threads that were removed and have left rows, which nobody sees any more: they go in small steps, because a long conversation in one
-- would hold up everybody's commits.
CREATE TABLE removed_threads (
  thread_id varchar(64) COLLATE "C" PRIMARY KEY
);

-- Frames of ended runs are swept run by run: a run that is swept is never looked at again.
ALTER TABLE runs ADD COLUMN is_swept boolean NOT NULL DEFAULT false;
CREATE INDEX ix_runs_to_sweep ON runs (updated_at) WHERE NOT is_swept AND status NOT IN ('pending', 'running');
