-- How often a run was begun: one that ends its process each time is given up.
ALTER TABLE runs ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
