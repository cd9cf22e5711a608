"""Scout for nodes on the local network, without opening a session."""

import argparse
import contextlib
import json
import threading

import zenspark as zenoh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-w", "--what", default="router|peer", help="roles to scout for")
    parser.add_argument("-o", "--timeout", type=float, default=1.0, help="seconds to wait for HELLO messages")
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

    print(f"Scouting for {args.what}...")
    scout = zenoh.scout(what=args.what, config=config)
    end = threading.Timer(args.timeout, scout.stop)
    end.daemon = True
    end.start()
    found = set()  # a node may reply to every SCOUT
    for hello in scout:
        found.add(str(hello.zid))
        print(f">> Found {hello.whatami} {hello.zid} at {', '.join(map(str, hello.locators))}")
    end.join()
    print(f"Found {len(found)} nodes.")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
