CREATE UNIQUE INDEX booking_seat ON booking (show, seat);

CREATE VIEW house AS
SELECT show.id, show.title, show.starts, show.seats,
       show.seats - (SELECT count(*) FROM booking WHERE booking.show = show.id) AS free
FROM show;
