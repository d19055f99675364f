// Fills the table of shows and sends bookings. Each call names its route as the contract does.

const call = async (route, numbers = {}, body) => {
  const [method, path] = route.split(" ");
  const url = path.replace(/\{(\w+)\}/g, (_, name) => numbers[name]);
  const response = await fetch(url, {
    method,
    headers: { "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
};

const cells = (...texts) => {
  const row = document.createElement("tr");
  for (const text of texts) row.insertCell().textContent = text;
  return row;
};

const fillShows = async () => {
  const { shows } = await call("GET /api/shows");
  const table = document.querySelector("#shows tbody");
  // The page for booking has a list to choose from instead of a table.
  const list = document.querySelector("#booking [name=show]");
  for (const show of shows) {
    table?.append(cells(show.title, new Date(show.starts).toLocaleString(), show.free));
    list?.append(new Option(show.title, show.id));
  }
};

const book = async (event) => {
  event.preventDefault();
  const form = new FormData(event.target);
  const answer = document.querySelector("#answer");
  try {
    const booking = await call(
      "POST /api/shows/{show}/bookings",
      { show: form.get("show") },
      { seat: Number(form.get("seat")), name: form.get("name") },
    );
    answer.textContent = `Seat ${booking.seat} is yours.`;
  } catch (error) {
    answer.textContent = error.message;
  }
};

fillShows();
document.querySelector("#booking")?.addEventListener("submit", book);
