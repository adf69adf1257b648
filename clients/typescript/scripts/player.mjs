// The player is one, and stands with the service, which serves it to browsers as it is: a copy goes into the package.

import { cpSync } from "node:fs";

const from = new URL("../../../service/oscine_service/browser/player/", import.meta.url);
cpSync(from, new URL("../dist/player/", import.meta.url), { recursive: true });
