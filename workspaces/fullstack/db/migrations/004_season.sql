INSERT INTO show (id, title, starts, seats) VALUES
    (1, 'The Tempest', '2026-02-06T19:30:00Z', 40),
    (2, 'Life of Galileo', '2026-02-13T19:30:00Z', 24),
    (3, 'Noises Off', '2026-02-20T19:30:00Z', 1);
