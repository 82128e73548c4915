-- breaking: the statements of an older program name a key that is gone.
-- Pending writes of graphs belong to a run, which may not be the one of their checkpoint: a rollback takes back its own and brings back
-- those they stood before. Their order says which count.
ALTER TABLE graph_writes DROP CONSTRAINT graph_writes_pkey;
ALTER TABLE graph_writes ADD COLUMN key bigint GENERATED ALWAYS AS IDENTITY;
-- Empty: a state update, or from before.
ALTER TABLE graph_writes ADD COLUMN run_id text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE graph_writes ADD PRIMARY KEY (thread_id, ns, checkpoint_id, task_id, idx, run_id);
