import { render } from "preact";
import { App } from "./app";
import { startRouting } from "./state/route";
import { startScheme } from "./state/scheme";
import { startSession } from "./state/session";
import "./style/base.css";
import "./style/parts.css";
import "./style/views.css";

startScheme();
startRouting();
startSession();
const place = document.getElementById("page");
if (place !== null) render(<App />, place);
