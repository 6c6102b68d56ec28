// A token behind # never reaches a server by itself: it is sent as a form, and leaves the address.
function enter() {
  const token = decodeURIComponent(location.hash.slice(1));
  if (!token) return;
  history.replaceState(null, "", "/login");
  document.getElementById("token").value = token;
  document.querySelector("form").submit();
}

document.getElementById("refused").hidden = location.search !== "?refused";
window.addEventListener("hashchange", enter);
enter();
