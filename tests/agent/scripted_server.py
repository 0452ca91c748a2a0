"""A server that speaks OpenAI's chat completions and says what a test tells it to."""

import json
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DRIP = b" " * 2**20  # sent byte by byte, with no end


def answer(content="", calls=(), finish=None, tokens=(100, 10), **extra):
    """A chat completion; ``calls`` holds (name, arguments) where arguments are a dict, or text to send as it is."""
    message = {"role": "assistant", "content": content, **extra}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"c{i}",
                "type": "function",
                "function": {"name": name, "arguments": a if isinstance(a, str) else json.dumps(a)},
            }
            for i, (name, a) in enumerate(calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": finish or ("tool_calls" if calls else "stop")}
    total = sum(count for count in tokens if isinstance(count, int))
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": total}
    return 200, {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


def refusal(status, message, code=None):
    """An error as OpenAI's server words it."""
    return status, {"error": {"message": message, "type": "error", "code": code}}


class Scripted:
    """What the server was asked, and where."""

    def __init__(self, script):
        self.script, self.requests, self.headers, self.url = script, [], [], ""
        self._lock = threading.Lock()

    def reply(self, body, headers):
        """The next entry of the script, which may be a function of the request."""
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            entry = self.script[min(len(self.requests), len(self.script)) - 1]
        return entry(body) if callable(entry) else entry


@contextmanager
def serve(script):
    """Run the server while in the block."""
    scripted, stopped = Scripted(script), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, value = scripted.reply(body, self.headers)
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Retry-After-Ms", "1")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with suppress(ConnectionError):
                while value is DRIP and not stopped.wait(0.02):
                    self.wfile.write(b" ")
                self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scripted.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield scripted
    finally:
        stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
