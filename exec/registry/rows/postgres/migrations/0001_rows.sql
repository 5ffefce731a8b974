CREATE TABLE rye_rows (
	name  text COLLATE "C" PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 500),
	value bytea NOT NULL CHECK (length(value) <= 262144)
);

-- The last update of each connection. A process whose connection breaks during a commit finds its outcome here.
CREATE TABLE rye_updates (
	connection bigint PRIMARY KEY,
	number     bigint NOT NULL,
	at         timestamptz NOT NULL
);
