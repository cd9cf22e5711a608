"""Publish as fast as possible, for sub_thr to measure."""

import argparse
import contextlib
import itertools
import json
import time

import zenspark as zenoh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("payload_size", type=int, nargs="?", default=8, help="bytes of a message")
    parser.add_argument("-p", "--priority", default="DATA", help="one of zenoh.Priority, from REAL_TIME to BACKGROUND")
    parser.add_argument("--express", action="store_true", help="let no message wait for others to share a packet")
    parser.add_argument("-t", "--print", action="store_true", help="print the rate")
    parser.add_argument("-n", "--number", type=int, default=100_000, help="messages in each measurement")
    parser.add_argument("--iter", type=int, help="end after so many measurements")
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
        print(f"Declaring Publisher on 'test/thr' for {args.payload_size} bytes...")
        publisher = session.declare_publisher(
            "test/thr",
            congestion_control=zenoh.CongestionControl.BLOCK,
            priority=getattr(zenoh.Priority, args.priority),
            express=args.express,
        )
        payload = zenoh.ZBytes(bytes(args.payload_size))
        print("Press CTRL-C to quit...")
        for _ in itertools.repeat(None) if args.iter is None else range(args.iter):
            start = time.perf_counter()
            for _ in range(args.number):
                publisher.put(payload)
            if args.print:
                print(f"{args.number / (time.perf_counter() - start):.0f} msg/s")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
