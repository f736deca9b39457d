"""Strongly connected components of a graph."""

from __future__ import annotations

from collections.abc import Sequence


def components(edges: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the strongly connected components, each after those it leads to (Tarjan, 1972).

    `edges[i]`: the nodes that node i leads to.
    """
    index: list[int] = [-1] * len(edges)
    low: list[int] = [0] * len(edges)
    on_stack = bytearray(len(edges))
    stack: list[int] = []
    counter = 0
    found: list[list[int]] = []
    for root in range(len(edges)):
        if index[root] >= 0:
            continue
        work = [(root, iter(edges[root]))]
        index[root] = low[root] = counter
        counter += 1
        stack.append(root)
        on_stack[root] = 1
        while work:
            node, targets = work[-1]
            for target in targets:
                if index[target] < 0:
                    index[target] = low[target] = counter
                    counter += 1
                    stack.append(target)
                    on_stack[target] = 1
                    work.append((target, iter(edges[target])))
                    break
                if on_stack[target]:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        component.append(stack.pop())
                        on_stack[component[-1]] = 0
                        if component[-1] == node:
                            break
                    found.append(component)
    return found
