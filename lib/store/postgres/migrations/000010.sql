-- What graphs of LangGraph keep of their threads: its checkpoints, values of channels once a version, and what tasks have written since.
CREATE TABLE graph_checkpoints (
  -- The order in which they were written: what is newest hangs on no clock.
  key           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  thread_id     text COLLATE "C" NOT NULL,
  ns            text COLLATE "C" NOT NULL,
  checkpoint_id text COLLATE "C" NOT NULL,
  parent_id     text COLLATE "C",
  run_id        text COLLATE "C",
  checkpoint    text COLLATE "C" NOT NULL,
  metadata      text COLLATE "C" NOT NULL,
  -- Of its values.
  names_json    text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX ux_graph_checkpoints ON graph_checkpoints (thread_id, ns, checkpoint_id);
CREATE INDEX ix_graph_checkpoints_newest ON graph_checkpoints (thread_id, ns, key);

CREATE TABLE graph_values (
  thread_id text COLLATE "C" NOT NULL,
  ns        text COLLATE "C" NOT NULL,
  name      text COLLATE "C" NOT NULL,
  type      text COLLATE "C" NOT NULL,
  data      text COLLATE "C" NOT NULL,
  PRIMARY KEY (thread_id, ns, name)
);

CREATE TABLE graph_writes (
  thread_id     text COLLATE "C" NOT NULL,
  ns            text COLLATE "C" NOT NULL,
  checkpoint_id text COLLATE "C" NOT NULL,
  task_id       text COLLATE "C" NOT NULL,
  -- Where the task stands among those of its superstep.
  task_path     text COLLATE "C" NOT NULL,
  idx           integer NOT NULL,
  channel       text COLLATE "C" NOT NULL,
  type          text COLLATE "C" NOT NULL,
  data          text COLLATE "C" NOT NULL,
  PRIMARY KEY (thread_id, ns, checkpoint_id, task_id, idx)
);
