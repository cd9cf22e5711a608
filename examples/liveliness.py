"""Declare a liveliness token, query the tokens, or subscribe to them."""

import argparse
import contextlib
import itertools
import json
import time

import zenspark as zenoh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", "--key", default="group1/zenspark", help="key of the token, or keys to query or watch")
    parser.add_argument("--get", action="store_true", help="print the tokens there are")
    parser.add_argument("--sub", action="store_true", help="print tokens as they appear and disappear")
    parser.add_argument("--history", action="store_true", help="like --sub, and first the tokens there are")
    parser.add_argument("-o", "--timeout", type=float, help="seconds --get waits at most, or a token lives")
    parser.add_argument("-n", "--iter", type=int, help="with --sub: end after so many changes")
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
        if args.get:
            print(f"Sending Liveliness Query '{args.key}'...")
            for reply in session.liveliness().get(args.key, timeout=args.timeout):
                print(f">> Alive token ('{reply.ok.key_expr}')" if reply.ok else f">> {reply.err}")
        elif args.sub or args.history:
            print(f"Declaring Liveliness Subscriber on '{args.key}'...")
            with session.liveliness().declare_subscriber(args.key, history=args.history) as subscriber:
                print("Press CTRL-C to quit...")
                for sample in itertools.islice(subscriber, args.iter):
                    word = "New alive" if sample.kind == zenoh.SampleKind.PUT else "Dropped"
                    print(f">> [LivelinessSubscriber] {word} token ('{sample.key_expr}')")
        else:
            print(f"Declaring LivelinessToken on '{args.key}'...")
            with session.liveliness().declare_token(args.key):
                print("Press CTRL-C to quit...")
                time.sleep(args.timeout or 10**6)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
