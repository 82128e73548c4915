-- breaking: an older program cannot read the checkpoints of graphs that this one writes.
-- From here on names_json may have lists, `{"name":"messages 2","parts":[[0,7]]}`, whose parts are rows of graph_values named
-- `messages#0000000000` and on. What is stored stays as it is.
SELECT 1;
