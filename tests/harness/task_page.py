"""A page of docs with tasks for an operator: reads its commands, and keeps which of them a test has executed."""

import re


class TaskPage:
    """The tasks of a page. A task begins with a heading "## NUMBER. TITLE"; its commands are in indented blocks."""

    def __init__(self, path):
        self.path = path
        with open(path) as page:
            self.text = page.read()
        self.tasks = read(self.text)
        self.executed = set()  # (number, line): the test has executed it, or has written it into the configuration

    def blocks(self, number):
        """The blocks of a task. A block is a list of lines."""
        return self.tasks[number][1]

    def left(self, number):
        """The lines of a task that no test has executed."""
        return [line for block in self.blocks(number) for line in block if (number, line) not in self.executed]


def read(text):
    """Returns {number of a task: (title, blocks)}."""
    tasks, block = {}, None
    for line in text.splitlines():
        if heading := re.fullmatch(r"## (\d+)\. (.+)", line):
            number, block = int(heading[1]), None
            assert number not in tasks, f"two tasks {number}"
            tasks[number] = (heading[2], [])
        elif line.startswith("    ") and tasks:
            if block is None:
                block = []
                tasks[number][1].append(block)
            block.append(line[4:])
        elif line:
            block = None
    return tasks
