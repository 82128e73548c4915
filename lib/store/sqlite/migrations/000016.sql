-- breaking: the statements of an older program name a key that is gone.
-- Pending writes of graphs belong to a run, which may not be the one of their checkpoint: a rollback takes back its own and brings back
-- those they stood before. Their order says which count.
CREATE TABLE graph_writes_by_run (
  key           INTEGER PRIMARY KEY,
  thread_id     TEXT NOT NULL,
  ns            TEXT NOT NULL,
  checkpoint_id TEXT NOT NULL,
  task_id       TEXT NOT NULL,
  idx           INTEGER NOT NULL,
  -- Empty: a state update, or from before.
  run_id        TEXT NOT NULL,
  -- Where the task stands among those of its superstep.
  task_path     TEXT NOT NULL,
  channel       TEXT NOT NULL,
  type          TEXT NOT NULL,
  data          TEXT NOT NULL
);
INSERT INTO graph_writes_by_run (thread_id, ns, checkpoint_id, task_id, idx, run_id, task_path, channel, type, data)
  SELECT thread_id, ns, checkpoint_id, task_id, idx, '', task_path, channel, type, data FROM graph_writes ORDER BY rowid;
DROP TABLE graph_writes;
ALTER TABLE graph_writes_by_run RENAME TO graph_writes;
CREATE UNIQUE INDEX uq_graph_writes ON graph_writes (thread_id, ns, checkpoint_id, task_id, idx, run_id);
