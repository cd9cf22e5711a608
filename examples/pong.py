"""Send every message of ping back."""

import argparse
import contextlib
import itertools
import json
import threading

import zenspark as zenoh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-express", action="store_true", help="let messages wait for others to share a packet")
    parser.add_argument("-n", "--iter", type=int, help="end after so many messages")
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

    over, numbers = threading.Event(), itertools.count(1)
    print("Opening session...")
    with zenoh.open(config) as session:
        publisher = session.declare_publisher(
            "test/pong", congestion_control=zenoh.CongestionControl.BLOCK, express=not args.no_express
        )

        def send_back(sample: zenoh.Sample) -> None:
            publisher.put(sample.payload)
            if next(numbers) == args.iter:
                over.set()

        print("Declaring Subscriber on 'test/ping'...")
        session.declare_subscriber("test/ping", send_back)
        print("Press CTRL-C to quit...")
        over.wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
