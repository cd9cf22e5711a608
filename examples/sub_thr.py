"""Measure how many messages of pub_thr arrive in a second."""

import argparse
import contextlib
import json
import threading
import time

import zenspark as zenoh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-s", "--samples", type=int, default=10, help="measurements to make")
    parser.add_argument("-n", "--number", type=int, default=100_000, help="messages in each measurement")
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

    over, starts, received = threading.Event(), [], 0

    def count(_: zenoh.Sample) -> None:
        nonlocal received
        if received % args.number == 0:
            starts.append(time.perf_counter())
            if 1 < len(starts) <= args.samples + 1:
                print(f"{args.number / (starts[-1] - starts[-2]):.0f} msg/s")
            if len(starts) > args.samples:
                over.set()
        received += 1

    print("Opening session...")
    with zenoh.open(config) as session:
        print("Declaring Subscriber on 'test/thr'...")
        session.declare_subscriber("test/thr", count)
        print("Press CTRL-C to quit...")
        over.wait()
    print(f"Received {received} messages.")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
