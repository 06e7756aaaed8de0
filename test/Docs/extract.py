"""extract.py PAGE LANGUAGE NUMBER FILE: saves the NUMBERth (from 1) block of LANGUAGE of a page, as a reader would."""
import sys

import pages

page, language, number, file = sys.argv[1:]
blocks = [block for block in pages.Page(".", page).blocks if block.language == language]
with open(file, "w") as out:
    out.write(blocks[int(number) - 1].text)
