-- Whose run a webhook tells of: the receivers of one user hold up nobody else's. NULL: nobody's, or from before.
ALTER TABLE webhooks ADD COLUMN user_id varchar(64) COLLATE "C";
