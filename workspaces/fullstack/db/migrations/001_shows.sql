CREATE TABLE show (
    id     INTEGER PRIMARY KEY,
    title  TEXT NOT NULL CHECK (title <> ''),
    starts TEXT NOT NULL,
    seats  INTEGER NOT NULL CHECK (seats > 0)
);
