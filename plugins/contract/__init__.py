"""What the slots of the pipeline promise each other: facts about a request, and one narrow Protocol per slot.

    admit -> screen -> route -> assemble -> recall -> constrain -> generate -> moderate -> record

Facts are frozen. A stage gets what it needs and returns what it decides; only the pipeline keeps state of a request.
This package imports none of ours but the errors, so that a plug-in needs nothing else.
"""
