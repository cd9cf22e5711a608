"""Subscribe with a channel that keeps only the latest samples, and read it at intervals."""

import argparse
import contextlib
import itertools
import json
import time

import zenspark as zenoh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", "--key", default="demo/example/**", help="keys to receive")
    parser.add_argument("--size", type=int, default=3, help="samples to keep")
    parser.add_argument("--interval", type=float, default=5.0, help="seconds between two reads")
    parser.add_argument("-n", "--iter", type=int, help="end after so many reads")
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
        print(f"Declaring Subscriber on '{args.key}' that keeps {args.size} samples...")
        with session.declare_subscriber(args.key, zenoh.handlers.RingChannel(args.size)) as subscriber:
            print("Press CTRL-C to quit...")
            for number in itertools.count(1) if args.iter is None else range(1, args.iter + 1):
                time.sleep(args.interval)
                print(f"Pull {number}:")
                while (sample := subscriber.try_recv()) is not None:
                    kind, value = str(sample.kind).split(".")[1], sample.payload.to_string()
                    print(f">> [Subscriber] Pulled {kind} ('{sample.key_expr}': '{value}')")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
