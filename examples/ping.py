"""Measure how long a message takes to another node, where pong runs, and back."""

import argparse
import contextlib
import json
import time

import zenspark as zenoh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("payload_size", type=int, nargs="?", default=8, help="bytes of a message")
    parser.add_argument("-w", "--warmup", type=float, default=1.0, help="seconds before measuring")
    parser.add_argument("-n", "--samples", type=int, default=100, help="round trips to measure")
    parser.add_argument("-m", "--mode", choices=["peer", "client", "router"], help="role of this node")
    parser.add_argument("-e", "--connect", metavar="ENDPOINT", action="append", help="connect here (repeatable)")
    parser.add_argument("-l", "--listen", metavar="ENDPOINT", action="append", help="listen here (repeatable)")
    parser.add_argument("-c", "--config", metavar="FILE", help="configuration to start from")
    parser.add_argument("--cfg", metavar="KEY:VALUE", action="append", default=[], help="set one key (repeatable)")
    parser.add_argument("--no-multicast-scouting", action="store_true", help="do not scout by multicast")
    args = parser.parse_args()
    zenoh.init_log_from_env_or("error")
    config = zenoh.Config.from_file(args.config) if args.config else zenoh.Config()
    wanted = {"mode": args.mode, "connect/endpoints": args.connect, "listen/endpoints": args.listen}
    for key, value in wanted.items():
        if value:
            config.insert_json5(key, json.dumps(value))
    if args.no_multicast_scouting:
        config.insert_json5("scouting/multicast/enabled", "false")
    for key, value in (pair.split(":", 1) for pair in args.cfg):
        config.insert_json5(key, value)

    times: list[float] = []
    print("Opening session...")
    with zenoh.open(config) as session:
        print("Waiting for pong...")
        publisher = session.declare_publisher(
            "test/ping", congestion_control=zenoh.CongestionControl.BLOCK, express=True
        )
        with session.declare_subscriber("test/pong") as subscriber:
            while not publisher.matching_status.matching:
                time.sleep(0.01)
            payload, warm = bytes(args.payload_size), time.perf_counter() + args.warmup
            while len(times) < args.samples:
                start = time.perf_counter()
                publisher.put(payload)
                subscriber.recv()
                end = time.perf_counter()
                if start >= warm:
                    times.append((end - start) * 1e6)
    for number, microseconds in enumerate(times):
        print(f"{args.payload_size} bytes: seq={number} rtt={microseconds:.0f}us lat={microseconds / 2:.0f}us")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
