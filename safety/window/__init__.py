"""Hold back streamed text until no rail can still object to it, and redact what must not leave."""
