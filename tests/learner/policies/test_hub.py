"""The upload of a policy, against a stand-in of the hub's HTTP interface."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
import yaml

from farflung.common.process.errors import ConfigurationError
from farflung.learner.policies import exporting, hub

pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")

pytestmark = pytest.mark.slow


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as an upload of small files asks for."""

    commits: ClassVar[list[dict[str, bytes]]] = []
    messages: ClassVar[list[str]] = []
    calls: ClassVar[list[str]] = []
    refuses = False

    def do_POST(self) -> None:
        """Answer a call."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.calls.append(self.path)
        here = f"http://{self.headers['Host']}"
        if self.refuses:
            self._answer({"error": "Invalid username or password."}, 401)
        elif self.path == "/api/repos/create":
            name = json.loads(body)["name"]
            self._answer({"url": f"{here}/me/{name}", "name": f"me/{name}", "id": "1"})
        elif self.path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            plain = [
                {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files
            ]
            self._answer({"files": plain})
        elif "/commit/" in self.path:
            lines = [json.loads(line) for line in body.splitlines()]
            self.messages += [line["value"]["summary"] for line in lines if line["key"] == "header"]
            self.commits.append(
                {
                    line["value"]["path"]: base64.b64decode(line["value"]["content"])
                    for line in lines
                    if line["key"] == "file"
                }
            )
            self._answer({"commitUrl": f"{here}/me/a/commit/0", "commitOid": "0" * 40})
        else:
            self._answer({}, 404)

    def do_GET(self) -> None:
        """Answer a question about the repository."""
        self.calls.append(self.path)
        self._answer({"id": "me/a", "sha": "0" * 40, "siblings": []})

    def log_message(self, *_: object) -> None:
        """Write nothing."""

    def _answer(self, content: object, code: int = 200) -> None:
        data = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def stand_in(monkeypatch):
    """A hub on this machine, and the library's address for it."""
    from huggingface_hub import constants

    handler = type("OneHub", (Hub,), {"commits": [], "messages": [], "calls": [], "refuses": False})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    # As HF_ENDPOINT and HF_TOKEN set them, which the library reads when it is imported.
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setenv("HF_TOKEN", "a-token")
    yield handler
    server.shutdown()
    server.server_close()
    thread.join()


def test_both_files_and_the_card_are_one_commit(run_of, stand_in):
    """The card names the files; the ONNX file acts."""
    import onnxruntime

    source = exporting.open_source(run_of("plain"), "")
    address = exporting.to_hub(source, "me/a")
    assert address.endswith("/me/a")
    (files,) = stand_in.commits
    assert sorted(files) == ["README.md", "policy.onnx", "policy.safetensors"]
    assert stand_in.messages == ["Farflung: best checkpoint, version 1.1"]
    card = files["README.md"].decode()
    assert 'onnxruntime.InferenceSession("policy.onnx")' in card
    header = yaml.safe_load(card.split("---")[1])
    (result,) = header["model-index"][0]["results"]
    assert result["metrics"][0]["value"] == "2.00 +/- 12.71"
    assert result["dataset"]["name"] == "CartPole-v1"
    session = onnxruntime.InferenceSession(files["policy.onnx"])
    assert [output.name for output in session.get_outputs()] == ["action", "q"]


def test_refusal_of_the_hub_is_one_sentence(run_of, stand_in):
    """With the way to a token."""
    stand_in.refuses = True
    with pytest.raises(ConfigurationError, match=r"nothing was uploaded to me/a.*hf auth login"):
        exporting.to_hub(exporting.open_source(run_of("plain"), ""), "me/a")
    assert stand_in.commits == []


def test_impossible_name_is_refused_before_a_call(tmp_path, stand_in):
    """The library checks it."""
    with pytest.raises(ConfigurationError, match="nothing was uploaded"):
        hub.upload("a/b/c", tmp_path, "text")
    assert stand_in.calls == []


def test_missing_library_names_the_extra(tmp_path, monkeypatch):
    """The extra is what brings it."""
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'farflung\[hub\]'"):
        hub.upload("me/a", tmp_path, "text")
