"""Publish a numbered value on a key, again and again."""

import argparse
import contextlib
import itertools
import json
import time

import zenspark as zenoh


def show(status: zenoh.MatchingStatus) -> None:
    print(f">> [Publisher] {'Subscribers match' if status.matching else 'No subscriber matches'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", "--key", default="demo/example/zenspark-pub", help="key to publish on")
    parser.add_argument("-p", "--payload", default="Pub from Python!", help="value to publish")
    parser.add_argument("-n", "--iter", type=int, help="end after so many values")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two values")
    parser.add_argument("--add-matching-listener", action="store_true", help="print when subscribers match")
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

    print("Opening session...")
    with zenoh.open(config) as session:
        print(f"Declaring Publisher on '{args.key}'...")
        publisher = session.declare_publisher(args.key)
        if args.add_matching_listener:
            publisher.declare_matching_listener(show)
        print("Press CTRL-C to quit...")
        for number in itertools.count() if args.iter is None else range(args.iter):
            time.sleep(args.interval)
            payload = f"[{number:4d}] {args.payload}"
            print(f"Putting Data ('{args.key}': '{payload}')...")
            publisher.put(payload)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
