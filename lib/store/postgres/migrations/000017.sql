-- breaking: an older program cannot read the checkpoints of graphs that this one writes.
-- What is stored stays as it is.
COMMENT ON COLUMN graph_checkpoints.names_json IS
  'Names of values; a list is {"name":"messages 2","parts":[[0,7]]}, and its parts are values named messages#0000000000 and on';
