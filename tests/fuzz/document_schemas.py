"""Schemas of documents that people write by hand, in small, each with documents that are valid: what API descriptions,
package files, pipelines and geographic or medical records look like."""

from __future__ import annotations

from typing import Any

_TEXT: Any = {"type": "string"}

OPENAPI: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["openapi", "info"],
    "properties": {
        "openapi": {"type": "string", "pattern": "^3\\.1\\.\\d+(-.+)?$"},
        "info": {"$ref": "#/$defs/info"},
        "servers": {"type": "array", "items": {"$ref": "#/$defs/server"}, "default": [{"url": "/"}]},
        "paths": {"$ref": "#/$defs/paths"},
        "components": {"$ref": "#/$defs/components"},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "uniqueItems": True},
    },
    "anyOf": [{"required": ["paths"]}, {"required": ["components"]}],
    "$ref": "#/$defs/extensions",
    "unevaluatedProperties": False,
    "$defs": {
        "extensions": {"patternProperties": {"^x-": True}},
        "info": {
            "type": "object",
            "properties": {"title": _TEXT, "version": _TEXT, "summary": _TEXT},
            "required": ["title", "version"],
            "$ref": "#/$defs/extensions",
            "unevaluatedProperties": False,
        },
        "server": {
            "type": "object",
            "properties": {"url": _TEXT, "variables": {"type": "object", "additionalProperties": {"type": "object"}}},
            "required": ["url"],
        },
        "tag": {"type": "object", "properties": {"name": _TEXT}, "required": ["name"], "unevaluatedProperties": False},
        "paths": {
            "type": "object",
            "patternProperties": {"^/": {"$ref": "#/$defs/item"}},
            "$ref": "#/$defs/extensions",
            "unevaluatedProperties": False,
        },
        "item": {
            "type": "object",
            "properties": {
                "$ref": {"type": "string", "format": "uri-reference"},
                "parameters": {"type": "array", "items": {"$ref": "#/$defs/parameter-or-reference"}},
                "get": {"$ref": "#/$defs/operation"},
                "post": {"$ref": "#/$defs/operation"},
            },
            "unevaluatedProperties": False,
        },
        "operation": {
            "type": "object",
            "properties": {
                "tags": {"type": "array", "items": _TEXT},
                "operationId": _TEXT,
                "parameters": {"type": "array", "items": {"$ref": "#/$defs/parameter-or-reference"}},
                "responses": {"$ref": "#/$defs/responses"},
                "deprecated": {"default": False, "type": "boolean"},
            },
            "$ref": "#/$defs/extensions",
            "unevaluatedProperties": False,
        },
        "responses": {
            "type": "object",
            "properties": {"default": {"$ref": "#/$defs/response"}},
            "patternProperties": {"^[1-5](?:[0-9]{2}|XX)$": {"$ref": "#/$defs/response"}},
            "minProperties": 1,
            "unevaluatedProperties": False,
        },
        "response": {"type": "object", "properties": {"description": _TEXT}, "required": ["description"]},
        "parameter-or-reference": {
            "if": {"type": "object", "required": ["$ref"]},
            "then": {"properties": {"$ref": _TEXT}},
            "else": {"$ref": "#/$defs/parameter"},
        },
        "parameter": {
            "type": "object",
            "properties": {
                "name": _TEXT,
                "in": {"enum": ["query", "header", "path", "cookie"]},
                "required": {"default": False, "type": "boolean"},
                "schema": {"$ref": "#/$defs/schema"},
                "content": {"type": "object", "minProperties": 1, "maxProperties": 1},
            },
            "required": ["name", "in"],
            "oneOf": [{"required": ["schema"]}, {"required": ["content"]}],
            "if": {"properties": {"in": {"const": "path"}}, "required": ["in"]},
            "then": {
                "properties": {"name": {"pattern": "^[^{}]+$"}, "required": {"const": True}},
                "required": ["required"],
            },
            "unevaluatedProperties": False,
        },
        "schema": {"type": ["object", "boolean"]},
        "components": {
            "type": "object",
            "properties": {
                "schemas": {"type": "object", "additionalProperties": {"$ref": "#/$defs/schema"}},
                "parameters": {"type": "object", "additionalProperties": {"$ref": "#/$defs/parameter-or-reference"}},
            },
            "patternProperties": {"^(schemas|parameters)$": {"propertyNames": {"pattern": "^[a-zA-Z0-9._-]+$"}}},
            "unevaluatedProperties": False,
        },
    },
}

PATIENT: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "oneOf": [
        {"$ref": "#/definitions/Patient"},
        {"$ref": "#/definitions/Observation"},
        {"$ref": "#/definitions/Bundle"},
    ],
    "definitions": {
        "id": {"type": "string", "pattern": "^[A-Za-z0-9\\-.]{1,64}$"},
        "code": {"type": "string", "pattern": "^[^\\s]+(\\s[^\\s]+)*$"},
        "date": {"type": "string", "pattern": "^(\\d{4})(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\\d|3[01]))?)?$"},
        "decimal": {"type": "number"},
        "Coding": {
            "type": "object",
            "properties": {"system": _TEXT, "code": {"$ref": "#/definitions/code"}, "display": _TEXT},
            "additionalProperties": False,
        },
        "CodeableConcept": {
            "type": "object",
            "properties": {"coding": {"type": "array", "items": {"$ref": "#/definitions/Coding"}}, "text": _TEXT},
            "additionalProperties": False,
        },
        "HumanName": {
            "type": "object",
            "properties": {
                "use": {"enum": ["usual", "official", "temp", "old"]},
                "family": _TEXT,
                "given": {"type": "array", "items": _TEXT},
            },
            "additionalProperties": False,
        },
        "Quantity": {
            "type": "object",
            "properties": {
                "value": {"$ref": "#/definitions/decimal"},
                "comparator": {"enum": ["<", "<=", ">=", ">"]},
                "unit": _TEXT,
            },
            "additionalProperties": False,
        },
        "Patient": {
            "type": "object",
            "properties": {
                "resourceType": {"const": "Patient"},
                "id": {"$ref": "#/definitions/id"},
                "active": {"type": "boolean"},
                "name": {"type": "array", "items": {"$ref": "#/definitions/HumanName"}},
                "birthDate": {"$ref": "#/definitions/date"},
                "contained": {"type": "array", "items": {"$ref": "#/definitions/Observation"}},
            },
            "required": ["resourceType"],
            "additionalProperties": False,
        },
        "Observation": {
            "type": "object",
            "properties": {
                "resourceType": {"const": "Observation"},
                "status": {"enum": ["registered", "preliminary", "final", "amended"]},
                "code": {"$ref": "#/definitions/CodeableConcept"},
                "valueQuantity": {"$ref": "#/definitions/Quantity"},
                "valueString": _TEXT,
                "valueBoolean": {"type": "boolean"},
            },
            "required": ["resourceType", "status", "code"],
            "allOf": [
                {"not": {"required": ["valueQuantity", "valueString"]}},
                {"not": {"required": ["valueQuantity", "valueBoolean"]}},
                {"not": {"required": ["valueString", "valueBoolean"]}},
            ],
            "additionalProperties": False,
        },
        "Bundle": {
            "type": "object",
            "properties": {
                "resourceType": {"const": "Bundle"},
                "type": {"enum": ["document", "collection"]},
                "total": {"type": "integer", "minimum": 0},
                "entry": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "resource": {
                                "oneOf": [{"$ref": "#/definitions/Patient"}, {"$ref": "#/definitions/Observation"}]
                            }
                        },
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["resourceType", "type"],
            "additionalProperties": False,
        },
    },
}

WORKFLOW: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["on", "jobs"],
    "additionalProperties": False,
    "definitions": {
        "event": {"type": "string", "enum": ["push", "pull_request", "schedule", "workflow_dispatch"]},
        "name": {"type": "string", "pattern": "^[_a-zA-Z][a-zA-Z0-9_-]*$"},
        "expression": {"type": "string", "pattern": "^\\$\\{\\{(.|[\r\n])*\\}\\}$"},
        "env": {
            "oneOf": [
                {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
                {"$ref": "#/definitions/expression"},
            ]
        },
        "branches": {"type": "array", "items": _TEXT, "minItems": 1},
        "ref": {
            "type": "object",
            "properties": {
                "branches": {"$ref": "#/definitions/branches"},
                "branches-ignore": {"$ref": "#/definitions/branches"},
            },
            "allOf": [{"not": {"type": "object", "required": ["branches", "branches-ignore"]}}],
        },
        "step": {
            "type": "object",
            "allOf": [{"oneOf": [{"required": ["uses"]}, {"required": ["run"]}]}],
            "properties": {
                "id": _TEXT,
                "if": {"type": ["boolean", "number", "string"]},
                "uses": _TEXT,
                "run": _TEXT,
                "shell": {"anyOf": [_TEXT, {"enum": ["bash", "pwsh", "sh"]}]},
                "with": {"$ref": "#/definitions/env"},
                "env": {"$ref": "#/definitions/env"},
                "timeout-minutes": {"anyOf": [{"type": "number"}, {"$ref": "#/definitions/expression"}]},
            },
            "dependencies": {"shell": ["run"], "with": ["uses"]},
            "additionalProperties": False,
        },
        "job": {
            "type": "object",
            "required": ["runs-on"],
            "properties": {
                "needs": {
                    "oneOf": [
                        {"type": "array", "items": {"$ref": "#/definitions/name"}, "minItems": 1},
                        {"$ref": "#/definitions/name"},
                    ]
                },
                "runs-on": {
                    "anyOf": [
                        {"type": "string"},
                        {
                            "type": "array",
                            "anyOf": [{"items": [{"const": "self-hosted"}], "minItems": 1, "additionalItems": _TEXT}],
                        },
                    ]
                },
                "steps": {"type": "array", "items": {"$ref": "#/definitions/step"}, "minItems": 1},
                "strategy": {
                    "type": "object",
                    "properties": {
                        "matrix": {
                            "oneOf": [
                                {
                                    "type": "object",
                                    "patternProperties": {
                                        "^(in|ex)clude$": {"type": "array", "items": {"type": "object"}}
                                    },
                                    "additionalProperties": {"type": "array", "minItems": 1},
                                    "minProperties": 1,
                                },
                                {"$ref": "#/definitions/expression"},
                            ]
                        },
                        "max-parallel": {"type": ["number", "string"]},
                    },
                    "required": ["matrix"],
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
    },
    "properties": {
        "name": _TEXT,
        "on": {
            "oneOf": [
                {"$ref": "#/definitions/event"},
                {"type": "array", "items": {"$ref": "#/definitions/event"}, "minItems": 1, "uniqueItems": True},
                {
                    "type": "object",
                    "properties": {
                        "push": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/ref"}]},
                        "pull_request": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/ref"}]},
                        "schedule": {
                            "type": "array",
                            "items": {"properties": {"cron": {"type": "string"}}, "additionalProperties": False},
                            "minItems": 1,
                        },
                        "workflow_dispatch": {"type": ["object", "null"]},
                    },
                    "additionalProperties": False,
                },
            ]
        },
        "env": {"$ref": "#/definitions/env"},
        "jobs": {
            "type": "object",
            "patternProperties": {"^[_a-zA-Z][a-zA-Z0-9_-]*$": {"$ref": "#/definitions/job"}},
            "minProperties": 1,
            "additionalProperties": False,
        },
    },
}

PACKAGE: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": ["object"],
    "definitions": {
        "person": {
            "type": ["object", "string"],
            "required": ["name"],
            "properties": {"name": _TEXT, "url": {"type": "string", "format": "uri"}, "email": {"type": "string"}},
        },
        "dependency": {"type": "object", "additionalProperties": {"type": "string"}},
        "exports": {
            "anyOf": [
                {"type": "null"},
                {"type": "string", "pattern": "^\\./"},
                {
                    "type": "object",
                    "properties": {
                        "import": {"$ref": "#/definitions/exports"},
                        "require": {"$ref": "#/definitions/exports"},
                    },
                    "patternProperties": {"^(?![.0-9]).+$": {"$ref": "#/definitions/exports"}},
                    "additionalProperties": False,
                },
                {"type": "array", "items": {"$ref": "#/definitions/exports"}},
            ]
        },
    },
    "patternProperties": {"^_": {"description": "anything that begins with an underscore"}},
    "properties": {
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": 214,
            "pattern": "^(?:@[a-z0-9-*~][a-z0-9-*._~]*/)?[a-z0-9-~][a-z0-9-._~]*$",
        },
        "version": {"type": "string"},
        "keywords": {"type": "array", "items": _TEXT, "uniqueItems": True},
        "author": {"$ref": "#/definitions/person"},
        "contributors": {"type": "array", "items": {"$ref": "#/definitions/person"}},
        "files": {"type": "array", "items": _TEXT},
        "bin": {"type": ["string", "object"], "additionalProperties": {"type": "string"}},
        "type": {"enum": ["commonjs", "module"], "default": "commonjs"},
        "exports": {
            "oneOf": [
                {"$ref": "#/definitions/exports"},
                {
                    "type": "object",
                    "patternProperties": {"^\\.(/.*)?$": {"$ref": "#/definitions/exports"}},
                    "additionalProperties": False,
                    "minProperties": 1,
                },
            ]
        },
        "dependencies": {"$ref": "#/definitions/dependency"},
        "os": {"type": "array", "items": {"enum": ["linux", "darwin", "win32"]}, "uniqueItems": True, "minItems": 1},
        "private": {"anyOf": [{"type": "boolean"}, {"enum": ["false", "true"]}]},
    },
    "anyOf": [{"type": "object", "not": {"required": ["bundledDependencies", "bundleDependencies"]}}],
}

ASYNCAPI: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["asyncapi", "channels"],
    "additionalProperties": False,
    "patternProperties": {"^x-[\\w\\d\\.\\-\\_]+$": {}},
    "properties": {
        "asyncapi": {"enum": ["2.5.0", "2.6.0"]},
        "defaultContentType": _TEXT,
        "channels": {
            "type": "object",
            "propertyNames": {"type": "string", "minLength": 1},
            "additionalProperties": {"$ref": "#/definitions/channel"},
        },
    },
    "definitions": {
        "channel": {
            "type": "object",
            "properties": {
                "publish": {"$ref": "#/definitions/operation"},
                "subscribe": {"$ref": "#/definitions/operation"},
                "bindings": {"type": "object", "properties": {"ws": {"type": "object"}, "amqp": {"type": "object"}}},
                "deprecated": {"type": "boolean", "default": False},
            },
            "additionalProperties": False,
        },
        "operation": {
            "type": "object",
            "properties": {
                "operationId": _TEXT,
                "message": {
                    "oneOf": [
                        {"$ref": "#/definitions/reference"},
                        {
                            "oneOf": [
                                {
                                    "type": "object",
                                    "required": ["oneOf"],
                                    "additionalProperties": False,
                                    "properties": {
                                        "oneOf": {"type": "array", "items": {"$ref": "#/definitions/message"}}
                                    },
                                },
                                {"$ref": "#/definitions/message"},
                            ]
                        },
                    ]
                },
            },
            "additionalProperties": False,
        },
        "reference": {
            "type": "object",
            "required": ["$ref"],
            "additionalProperties": False,
            "properties": {"$ref": _TEXT},
        },
        "message": {
            "type": "object",
            "properties": {
                "name": _TEXT,
                "contentType": {"type": "string", "pattern": "^[a-z]+/[a-z0-9+.-]+$"},
                "payload": {},
                "correlationId": {
                    "oneOf": [{"$ref": "#/definitions/reference"}, {"type": "object", "required": ["location"]}]
                },
            },
            "additionalProperties": False,
        },
    },
}

_POSITION: Any = {"type": "array", "minItems": 2, "items": {"type": "number"}}
_BOX: Any = {"type": "array", "minItems": 4, "items": {"type": "number"}}


def _geometry(kind: str, coordinates: Any) -> dict[str, Any]:
    properties = {"type": {"type": "string", "enum": [kind]}, "coordinates": coordinates, "bbox": _BOX}
    return {"type": "object", "required": ["type", "coordinates"], "properties": properties}


_GEOMETRIES = [
    _geometry("Point", _POSITION),
    _geometry("LineString", {"type": "array", "minItems": 2, "items": _POSITION}),
    _geometry("Polygon", {"type": "array", "items": {"type": "array", "minItems": 4, "items": _POSITION}}),
    _geometry("MultiPoint", {"type": "array", "items": _POSITION}),
]
_FEATURE: dict[str, Any] = {
    "type": "object",
    "required": ["type", "properties", "geometry"],
    "properties": {
        "type": {"type": "string", "enum": ["Feature"]},
        "id": {"oneOf": [{"type": "number"}, {"type": "string"}]},
        "properties": {"oneOf": [{"type": "null"}, {"type": "object"}]},
        "geometry": {"oneOf": [{"type": "null"}, *_GEOMETRIES]},
        "bbox": _BOX,
    },
}
GEOJSON: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "oneOf": [
        *_GEOMETRIES,
        _FEATURE,
        {
            "type": "object",
            "required": ["type", "features"],
            "properties": {
                "type": {"type": "string", "enum": ["FeatureCollection"]},
                "features": {"type": "array", "items": _FEATURE},
                "bbox": _BOX,
            },
        },
    ],
}


def _resource(kind: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "Type": {"type": "string", "enum": [kind]},
            "DependsOn": {
                "anyOf": [
                    {"type": "string", "pattern": "^[a-zA-Z0-9]+$"},
                    {"type": "array", "items": {"type": "string", "pattern": "^[a-zA-Z0-9]+$"}},
                ]
            },
            "DeletionPolicy": {"enum": ["Delete", "Retain", "Snapshot"]},
            "Properties": {
                "type": "object",
                "properties": properties,
                "additionalProperties": False,
                **({"required": required} if required else {}),
            },
        },
        "required": ["Type", *(["Properties"] if required else [])],
        "additionalProperties": False,
    }


_TAG: Any = {
    "type": "object",
    "properties": {"Key": _TEXT, "Value": _TEXT},
    "required": ["Key", "Value"],
    "additionalProperties": False,
}
_PORT: Any = {"type": "integer", "minimum": -1, "maximum": 65535}
STACK: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "type": "object",
    "properties": {
        "AWSTemplateFormatVersion": {"type": "string", "enum": ["2010-09-09"]},
        "Description": {"type": "string", "maxLength": 1024},
        "Parameters": {
            "type": "object",
            "patternProperties": {
                "^[a-zA-Z0-9]+$": {
                    "type": "object",
                    "properties": {
                        "Type": {"enum": ["String", "Number", "CommaDelimitedList"]},
                        "Default": {"type": ["string", "number"]},
                        "MinLength": {"type": "integer", "minimum": 0},
                        "NoEcho": {"type": ["string", "boolean"]},
                    },
                    "required": ["Type"],
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
            "maxProperties": 50,
        },
        "Resources": {
            "type": "object",
            "patternProperties": {
                "^[a-zA-Z0-9]+$": {
                    "anyOf": [
                        _resource(
                            "AWS::S3::Bucket",
                            {"BucketName": _TEXT, "Tags": {"type": "array", "items": _TAG, "uniqueItems": True}},
                            [],
                        ),
                        _resource(
                            "AWS::SNS::Topic", {"TopicName": _TEXT, "Tags": {"type": "array", "items": _TAG}}, []
                        ),
                        _resource(
                            "AWS::EC2::SecurityGroup",
                            {
                                "GroupDescription": _TEXT,
                                "SecurityGroupIngress": {
                                    "type": "array",
                                    "uniqueItems": True,
                                    "items": {
                                        "type": "object",
                                        "properties": {
                                            "IpProtocol": {"enum": ["tcp", "udp", "-1"]},
                                            "FromPort": _PORT,
                                            "ToPort": _PORT,
                                            "CidrIp": {
                                                "type": "string",
                                                "pattern": "^\\d{1,3}(\\.\\d{1,3}){3}/\\d{1,2}$",
                                            },
                                        },
                                        "required": ["IpProtocol"],
                                        "additionalProperties": False,
                                    },
                                },
                            },
                            ["GroupDescription"],
                        ),
                        {
                            "type": "object",
                            "properties": {
                                "Type": {"type": "string", "pattern": "^Custom::[a-zA-Z_@-]{1,60}$"},
                                "Properties": {
                                    "additionalProperties": True,
                                    "properties": {"ServiceToken": _TEXT},
                                    "required": ["ServiceToken"],
                                    "type": "object",
                                },
                            },
                            "required": ["Type", "Properties"],
                            "additionalProperties": False,
                        },
                    ]
                }
            },
            "minProperties": 1,
            "additionalProperties": False,
        },
    },
    "required": ["Resources"],
    "additionalProperties": False,
}

DOCUMENTS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "openapi": (
        OPENAPI,
        [
            {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {}},
            {
                "openapi": "3.1.0-rc1",
                "info": {"title": "t", "version": "1", "x-logo": {"url": 1}},
                "servers": [{"url": "/", "variables": {"v": {"default": "a"}}}],
                "paths": {
                    "/a/{id}": {
                        "parameters": [{"name": "id", "in": "path", "required": True, "schema": {}}],
                        "get": {
                            "operationId": "g",
                            "parameters": [{"$ref": "#/p"}, {"name": "q", "in": "query", "content": {"a/b": {}}}],
                            "responses": {"200": {"description": "ok"}, "4XX": {"description": "no"}},
                        },
                    },
                    "x-any": 1,
                },
                "components": {"schemas": {"A": {"type": "object"}, "B.c": True}},
                "tags": [{"name": "a"}, {"name": "b"}],
                "x-internal": None,
            },
            {
                "openapi": "3.1.1",
                "info": {"title": "", "version": ""},
                "components": {"parameters": {"p": {"$ref": "x"}}},
            },
        ],
    ),
    "patient": (
        PATIENT,
        [
            {
                "resourceType": "Patient",
                "id": "p-1",
                "name": [{"use": "official", "family": "A", "given": ["b", "c"]}],
                "birthDate": "1970-01",
            },
            {
                "resourceType": "Observation",
                "status": "final",
                "code": {"text": "x"},
                "valueQuantity": {"value": 1.5, "comparator": "<=", "unit": "mg"},
            },
            {
                "resourceType": "Observation",
                "status": "amended",
                "code": {"coding": [{"code": "a b", "system": "s"}]},
                "valueString": "s",
            },
            {
                "resourceType": "Bundle",
                "type": "collection",
                "total": 2,
                "entry": [
                    {"resource": {"resourceType": "Patient", "active": True, "contained": []}},
                    {"resource": {"resourceType": "Observation", "status": "final", "code": {}, "valueBoolean": False}},
                    {},
                ],
            },
        ],
    ),
    "workflow": (
        WORKFLOW,
        [
            {"on": "push", "jobs": {"a": {"runs-on": "x"}}},
            {
                "name": "ci",
                "on": ["push", "pull_request"],
                "env": {"A": 1, "B": True, "C": "x"},
                "jobs": {
                    "build": {
                        "runs-on": ["self-hosted", "linux"],
                        "strategy": {"matrix": {"python": [3.11, "3.12"], "include": [{"a": 1}]}, "max-parallel": 2},
                        "steps": [
                            {"uses": "actions/checkout@v4", "with": {"depth": 0}},
                            {"run": "make", "shell": "bash", "env": "${{ x }}", "if": True, "timeout-minutes": 5},
                        ],
                    },
                    "test": {"runs-on": "u", "needs": ["build"], "steps": [{"run": ""}]},
                },
            },
            {
                "on": {"push": {"branches": ["main"]}, "pull_request": None, "schedule": [{"cron": "0 0 * * *"}]},
                "jobs": {"_x": {"runs-on": "u", "needs": "y", "strategy": {"matrix": "${{ m }}"}}},
            },
        ],
    ),
    "package": (
        PACKAGE,
        [
            {"name": "@a/b", "version": "1.0.0", "keywords": ["x", "y"], "author": "me", "private": True},
            {
                "name": "b.c",
                "author": {"name": "n", "url": "https://example.org", "other": 1},
                "contributors": ["x", {"name": "y"}],
                "exports": {".": {"import": "./a.mjs", "require": ["./a.cjs", None]}, "./b": "./b.js"},
                "bin": {"run": "./run.js"},
                "os": ["linux", "darwin"],
                "_id": {"any": []},
                "private": "true",
                "bundleDependencies": ["a"],
            },
            {"exports": "./x", "type": "module", "dependencies": {"a": "^1", "b": "*"}, "bin": "./r"},
        ],
    ),
    "asyncapi": (
        ASYNCAPI,
        [
            {"asyncapi": "2.6.0", "channels": {}},
            {
                "asyncapi": "2.5.0",
                "channels": {
                    "a/{b}": {
                        "publish": {"operationId": "p", "message": {"$ref": "#/m"}},
                        "subscribe": {"message": {"oneOf": [{"name": "n", "payload": {"type": "object"}}, {}]}},
                        "bindings": {"ws": {}, "kafka": 1},
                    },
                    "c": {
                        "publish": {"message": {"contentType": "application/json", "correlationId": {"location": "x"}}},
                        "deprecated": True,
                    },
                },
                "x-a.b": [1],
            },
        ],
    ),
    "geojson": (
        GEOJSON,
        [
            {"type": "Point", "coordinates": [1, 2.5]},
            {"type": "LineString", "coordinates": [[0, 0], [1, 1, 9]], "bbox": [0, 0, 1, 1]},
            {"type": "Polygon", "coordinates": [[[0, 0], [0, 1], [1, 1], [0, 0]]]},
            {
                "type": "Feature",
                "id": 3,
                "properties": {"a": "b"},
                "geometry": {"type": "MultiPoint", "coordinates": []},
            },
            {
                "type": "FeatureCollection",
                "features": [
                    {"type": "Feature", "properties": None, "geometry": None},
                    {
                        "type": "Feature",
                        "id": "x",
                        "properties": {},
                        "geometry": {"type": "Point", "coordinates": [0, 0]},
                    },
                ],
            },
        ],
    ),
    "stack": (
        STACK,
        [
            {"Resources": {"B": {"Type": "AWS::S3::Bucket"}}},
            {
                "AWSTemplateFormatVersion": "2010-09-09",
                "Parameters": {"P": {"Type": "String", "Default": "x", "NoEcho": True}},
                "Resources": {
                    "B1": {
                        "Type": "AWS::S3::Bucket",
                        "DependsOn": ["T"],
                        "Properties": {"Tags": [{"Key": "a", "Value": "b"}, {"Key": "a", "Value": "c"}]},
                    },
                    "T": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "t"}, "DeletionPolicy": "Retain"},
                    "G": {
                        "Type": "AWS::EC2::SecurityGroup",
                        "Properties": {
                            "GroupDescription": "g",
                            "SecurityGroupIngress": [
                                {"IpProtocol": "tcp", "FromPort": 1, "ToPort": 2, "CidrIp": "10.0.0.0/8"},
                                {"IpProtocol": "-1"},
                            ],
                        },
                    },
                    "C": {"Type": "Custom::Thing", "Properties": {"ServiceToken": "s", "x": [1]}},
                },
            },
        ],
    ),
}
