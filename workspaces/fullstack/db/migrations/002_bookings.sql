CREATE TABLE booking (
    id   INTEGER PRIMARY KEY,
    show INTEGER NOT NULL REFERENCES show (id),
    seat INTEGER NOT NULL CHECK (seat > 0),
    name TEXT NOT NULL CHECK (name <> '')
);
