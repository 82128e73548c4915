-- What graphs of LangGraph keep of their threads: its checkpoints, values of channels once a version, and what tasks have written since.
CREATE TABLE graph_checkpoints (
  -- The order in which they were written: what is newest hangs on no clock.
  key           INTEGER PRIMARY KEY,
  thread_id     TEXT NOT NULL,
  ns            TEXT NOT NULL,
  checkpoint_id TEXT NOT NULL,
  parent_id     TEXT,
  run_id        TEXT,
  checkpoint    TEXT NOT NULL,
  metadata      TEXT NOT NULL,
  -- Of its values.
  names_json    TEXT NOT NULL
);
CREATE UNIQUE INDEX ux_graph_checkpoints ON graph_checkpoints (thread_id, ns, checkpoint_id);
CREATE INDEX ix_graph_checkpoints_newest ON graph_checkpoints (thread_id, ns, key);

CREATE TABLE graph_values (
  thread_id TEXT NOT NULL,
  ns        TEXT NOT NULL,
  name      TEXT NOT NULL,
  type      TEXT NOT NULL,
  data      TEXT NOT NULL,
  PRIMARY KEY (thread_id, ns, name)
);

CREATE TABLE graph_writes (
  thread_id     TEXT NOT NULL,
  ns            TEXT NOT NULL,
  checkpoint_id TEXT NOT NULL,
  task_id       TEXT NOT NULL,
  -- Where the task stands among those of its superstep.
  task_path     TEXT NOT NULL,
  idx           INTEGER NOT NULL,
  channel       TEXT NOT NULL,
  type          TEXT NOT NULL,
  data          TEXT NOT NULL,
  PRIMARY KEY (thread_id, ns, checkpoint_id, task_id, idx)
);
