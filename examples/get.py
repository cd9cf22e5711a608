"""Query the values of a key expression, and print the replies."""

import argparse
import contextlib
import json

import zenspark as zenoh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-s", "--selector", default="demo/example/**", help="keys to query, and ?parameters")
    parser.add_argument("-p", "--payload", help="value to send with the query")
    targets = ["BEST_MATCHING", "ALL", "ALL_COMPLETE"]
    parser.add_argument("-t", "--target", choices=targets, default="BEST_MATCHING", help="which queryables to query")
    parser.add_argument("-o", "--timeout", type=float, default=10.0, help="seconds to wait for replies")
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
        print(f"Sending Query '{args.selector}'...")
        target = getattr(zenoh.QueryTarget, args.target)
        for reply in session.get(args.selector, target=target, payload=args.payload, timeout=args.timeout):
            if reply.ok is not None:
                print(f">> Received ('{reply.ok.key_expr}': '{reply.ok.payload.to_string()}')")
            elif reply.err is not None:
                print(f">> Received (ERROR: '{reply.err.payload.to_string()}')")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
