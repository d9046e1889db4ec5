"""What is measured of flows: reports of runs, and the history that flows keep of themselves."""
