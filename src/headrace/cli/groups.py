"""Groups of commands that say which there are when one is named that is not."""

import click


class Named(click.Group):
    """Kubernetes' users write `explain pod/web` and `resize web`: what would be right stands in the answer."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        given = args[0]
        if ctx.resilient_parsing or given.startswith("-") or self.get_command(ctx, given) is not None:
            return super().resolve_command(ctx, args)
        import difflib

        there = self.list_commands(ctx)
        meant = difflib.get_close_matches(given, there, n=1)
        told = f"did you mean {meant[0]!r}?" if meant else f"there are {', '.join(there)}"
        raise click.UsageError(f"no such command {given!r}; {told}", ctx)
