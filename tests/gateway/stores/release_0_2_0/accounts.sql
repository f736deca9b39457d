BEGIN TRANSACTION;
CREATE TABLE changes (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL);
INSERT INTO "changes" VALUES(1,5);
CREATE TABLE keys (id TEXT PRIMARY KEY, record TEXT NOT NULL);
INSERT INTO "keys" VALUES('root','{"id":"root","digest":"4813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2","tenant":"","team":"","scopes":["admin","review"],"models":[],"tools":[],"routes":[],"rails":[],"limits":{"requests_per_minute":null,"tokens_per_minute":null,"concurrency":null,"budget_day":null,"budget_month":null},"created_at_s":1795438485.099,"expires_at_s":null,"revoked_at_s":null,"previous_digest":"","previous_until_s":0.0,"source":"store"}');
INSERT INTO "keys" VALUES('caller','{"id":"caller","digest":"61de55ba3388aec4fdf6ecfc6eef846fb0f1b13e28cc8381270c27ffa313aee5","tenant":"","team":"blue","scopes":[],"models":[],"tools":[],"routes":[],"rails":[],"limits":{"requests_per_minute":1000,"tokens_per_minute":null,"concurrency":null,"budget_day":5.0,"budget_month":null},"created_at_s":1795438497.743,"expires_at_s":null,"revoked_at_s":null,"previous_digest":"","previous_until_s":0.0,"source":"store"}');
INSERT INTO "keys" VALUES('gone','{"id":"gone","digest":"283bb9deef02e6843abfb538efa1eca70801bd8a701c3f98191e123496339247","tenant":"","team":"","scopes":[],"models":[],"tools":[],"routes":[],"rails":[],"limits":{"requests_per_minute":null,"tokens_per_minute":null,"concurrency":null,"budget_day":null,"budget_month":null},"created_at_s":1795438516.659,"expires_at_s":null,"revoked_at_s":1795438537.579,"previous_digest":"","previous_until_s":0.0,"source":"store"}');
CREATE TABLE origin (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL);
INSERT INTO "origin" VALUES(1,'451456ab685d9e02');
CREATE TABLE segments (journal TEXT PRIMARY KEY, applied INTEGER NOT NULL);
INSERT INTO "segments" VALUES('c1e8fc3d1909b0c0',8);
CREATE TABLE set_aside (
    at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, row TEXT NOT NULL, reason TEXT NOT NULL
);
CREATE TABLE teams (name TEXT PRIMARY KEY, limits TEXT NOT NULL);
INSERT INTO "teams" VALUES('blue','{"requests_per_minute":null,"tokens_per_minute":null,"concurrency":null,"budget_day":null,"budget_month":50.0}');
CREATE TABLE usage (
    day TEXT NOT NULL, key_id TEXT NOT NULL, team TEXT NOT NULL, feature TEXT NOT NULL, model TEXT NOT NULL,
    requests INTEGER NOT NULL, errors INTEGER NOT NULL, interrupted INTEGER NOT NULL, cached INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, cost_nanos INTEGER NOT NULL,
    PRIMARY KEY (day, key_id, team, feature, model)
) WITHOUT ROWID;
INSERT INTO "usage" VALUES('2026-11-23','caller','blue','','',1,1,0,0,0,0,0,0);
INSERT INTO "usage" VALUES('2026-11-23','caller','blue','','bundled',8,0,0,2,222,160,344,910000);
COMMIT;
pragma user_version = 1;
