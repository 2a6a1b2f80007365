"""Take a picture of a web page, with Debian's headless Chromium: ``python browser.py URL TEXT FILE``.

Runs in an environment of its own (harness/requirements/browser.txt) and imports nothing of ours. It waits
until the page shows TEXT. Chromium gets no network but the page's own: each flag stops something that it
would ask for.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
    "--hide-scrollbars",
)
SIZE = (1280, 900)
#: Airflow's UI draws values that are objects some time after the rest.
SETTLE_SECONDS = 4


def take(url: str, text: str, file: str) -> None:
    """Open the page, wait for the text, write the picture."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        service = webdriver.ChromeService(shutil.which("chromedriver") or "chromedriver")
        browser = webdriver.Chrome(options=options, service=service)
        try:
            browser.set_window_size(*SIZE)
            browser.get(url)
            WebDriverWait(browser, 60).until(lambda page: text in page.find_element(By.TAG_NAME, "body").text)
            time.sleep(SETTLE_SECONDS)
            browser.save_screenshot(file)
        finally:
            browser.quit()


if __name__ == "__main__":
    take(*sys.argv[1:])
